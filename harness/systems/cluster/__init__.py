"""A cluster that runs already, reached by its addresses: nothing is deployed, started or stopped."""
