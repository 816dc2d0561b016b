"""One module per benchmark; medians and ratios, measured beside must and stretch."""
