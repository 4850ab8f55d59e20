"""One run: build, train, harden and score its model, and keep the results in a folder."""
