"""The errors of the service's work with Kafka. `exit_code` is the exit code of the `sluice` command.

SluiceError
 +- PropertyError       a property in the `kafka:` block of the pipeline file cannot be used
 +- UnavailableError    no broker answers, or the brokers refuse the login
 |   +- HungError       a call of the client library did not return within its bound
 +- TopicError          a topic is missing, or the user may not use it
 |   +- TopicMissingError   an input topic does not exist
 |   +- DataLossError   Kafka has deleted records that were not read yet
 |   +- TopicsChangedError  the query may go on, if it is started again with what the topics are now
 |       +- TopicPartitionsAddedError   a topic has more topic partitions than when the query started
 |       +- TopicCreatedAgainError      an input topic was deleted and created again, and records may be lost
 |       +- TopicDeletedError           an input topic was deleted
 +- PartsClosedError    a batch in parts is closed; the query starts again, with other buckets or with one writer
 +- HeaderNameError     the name of a record's header is not UTF-8
 +- LedgerError         the checkpoint and the ledger do not belong together
 +- FencedError         another instance of the service has taken over, or another process writes the parts of a bucket
 |   +- TakenOverError      another start of the service has taken over
 +- WriteError          a batch could not be written; no record of it is visible
     +- ExpiredError    the batch's transaction was open for too long, and the broker has aborted it
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


class TopicMissingError(TopicError):
    pass


class DataLossError(TopicError):
    pass


class TopicsChangedError(TopicError):
    pass


class TopicPartitionsAddedError(TopicsChangedError):
    pass


class TopicCreatedAgainError(TopicsChangedError):
    pass


class TopicDeletedError(TopicsChangedError):
    pass


class PartsClosedError(SluiceError):
    pass


class HeaderNameError(SluiceError):
    exit_code = 3


class LedgerError(SluiceError):
    exit_code = 4


class FencedError(SluiceError):
    exit_code = 5


class TakenOverError(FencedError):
    pass


class WriteError(SluiceError):
    exit_code = 3


class ExpiredError(WriteError):
    exit_code = 6
