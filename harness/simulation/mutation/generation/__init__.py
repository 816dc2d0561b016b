"""Generate mutants from the syntax trees of the nodes, and draw a sample of them."""
