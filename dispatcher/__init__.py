"""Usage goes out: schedules become runs, runs become signed webhooks."""
