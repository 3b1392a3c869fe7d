"""One migration for each version of the tables since Django makes them."""
