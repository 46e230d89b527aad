"""Tests of Meterline: unit (pure), contract (per port), journey (whole product), bench, tidy."""
