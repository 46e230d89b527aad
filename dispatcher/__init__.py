"""The dispatcher computes the runs of reports and sends their deliveries as signed webhooks."""
