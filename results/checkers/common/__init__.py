"""What all checkers share."""
