"""The roles: what each process of either set-up is made of. Each has a module of its own, so that a
process imports what it needs: a worker that comes back counts sooner.
"""
