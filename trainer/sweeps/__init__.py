"""The order and number of visits: which rows a sweep visits, how often, and when sweeps end."""
