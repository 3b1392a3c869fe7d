"""One module for each kind of database."""
