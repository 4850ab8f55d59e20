"""One run: built, trained, rounded, scored, and the folder that holds it."""
