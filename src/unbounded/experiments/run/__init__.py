"""One run: built, trained, hardened, scored, and the folder that holds it."""
