"""What the SQL store asks of each kind of database, and how that is answered."""
