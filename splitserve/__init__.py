"""For programs that use what a splitserve stack serves; it holds nothing of the program that deploys it."""
