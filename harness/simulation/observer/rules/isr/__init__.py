"""Rules about the ISR, who is eligible to lead, and who leads."""
