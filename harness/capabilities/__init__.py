"""Which kinds of disaggregation the system under test has, decided by checks that run (DA-01 to DA-08)."""
