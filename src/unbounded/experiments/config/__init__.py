"""The config of a run as typed data: schema, presets, composition and checks."""
