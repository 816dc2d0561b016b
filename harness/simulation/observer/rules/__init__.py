"""The rules of the observer, one a file; `catalogue` lists them."""
