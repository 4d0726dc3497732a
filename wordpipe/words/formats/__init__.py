"""Word vectors as other programs write and read them."""
