"""One file per migration, never changed after its release. Old code must run on the new schema."""
