"""Subjects of users in NATS. Topics between groups are in `spdist.transports.nats`."""
