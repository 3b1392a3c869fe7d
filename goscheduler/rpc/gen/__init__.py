"""Code made of the protos by "make proto": messages and stubs for clients in Python."""
