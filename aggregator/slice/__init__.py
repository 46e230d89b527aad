"""ROOM"""
