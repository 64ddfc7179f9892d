"""What can go wrong between us and Kafka.

SluiceError
 +- PropertyError      the `kafka:` block of the file
 +- UnavailableError   no broker answers, or none lets us in
 |   +- HungError      a call of the client library did not return within its bound
 +- TopicError         a topic is missing, or we may not use it
 |   +- DataLossError  records are gone that were not read yet
 |   +- GrownError     a topic has more topic partitions than when the query started
 +- LedgerError        checkpoint and ledger do not belong together
 +- FencedError        another instance of the service has taken over
 +- WriteError         a batch could not be written; nothing of it is visible
     +- ExpiredError    its transaction was open for too long, and the broker has aborted it
"""

from __future__ import annotations

from sluice.model.errors import SluiceError


class PropertyError(SluiceError):
    exit_code = 2


class UnavailableError(SluiceError):
    exit_code = 3


class HungError(UnavailableError):
    pass


class TopicError(SluiceError):
    exit_code = 3


class DataLossError(TopicError):
    pass


class GrownError(TopicError):
    pass


class LedgerError(SluiceError):
    exit_code = 4


class FencedError(SluiceError):
    exit_code = 5


class WriteError(SluiceError):
    exit_code = 3


class ExpiredError(WriteError):
    exit_code = 6
