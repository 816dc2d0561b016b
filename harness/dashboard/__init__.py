"""`squall dashboard`: build the pages about many runs, and serve them."""
