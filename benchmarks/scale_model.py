"""A model of how many records a second a cluster handles, from measured costs of its parts."""

from __future__ import annotations

from dataclasses import dataclass, fields

#: digits behind the point, where a cost is not shown with two
DIGITS = {"outputs": 3, "batch": 0}
#: records of a batch for each core of the executors (spark/source.py)
PER_CORE = 250_000


@dataclass(frozen=True, slots=True)
class Costs:
    """The costs of one workload. Times are of one core.

    outputs   records that are written per record that is read
    source    microseconds per record read: Spark's source, the way to Python, and the shuffle, in the executors' Java
    decode    microseconds per record read: decoding and routing, in the executors' Python workers
    engine    microseconds per record read: windows and the log of the state, in the state servers
    encode    microseconds per record written: encoding, in the state servers
    returned  microseconds per record written: the way of the outputs through the driver's Java, beside `batch`
    write     microseconds per record written: merging and producing in the driver, beside `batch`
    broker    microseconds per record read: the work of the brokers for its input and its outputs
    compilers microseconds per record read: Java compiled its code during the measurement; not in the model
    batch     milliseconds of a batch without records: planning, the two logs, the transaction
    task      milliseconds of the driver per task
    """

    outputs: float
    source: float
    decode: float
    engine: float
    encode: float
    returned: float
    write: float
    broker: float
    compilers: float
    batch: float
    task: float

    @property
    def executors(self) -> float:
        """Microseconds of an executor's core per record read."""
        return self.source + self.decode + self.engine + self.outputs * self.encode

    @property
    def driver(self) -> float:
        """Microseconds of the driver per record read, while no task runs."""
        return self.outputs * (self.returned + self.write)

    @classmethod
    def mean(cls, several: list[Costs]) -> Costs:
        """The means of several measurements, rounded as the page shows them."""
        names = [field.name for field in fields(cls)]
        means = {name: sum(getattr(one, name) for one in several) / len(several) for name in names}
        return cls(**{name: round(mean, DIGITS.get(name, 2)) for name, mean in means.items()})


@dataclass(frozen=True, slots=True)
class Cluster:
    """A cluster: executors with cores each, and the records of a batch, by default PER_CORE for each core.

    The topic partitions and the buckets are as many as the cores. `shared` is the number of cores that executors,
    driver and broker have together if they are on one machine; None if each has a machine of its own.
    """

    executors: float
    cores: int = 1
    records: int = 0
    shared: int | None = None

    @property
    def batch(self) -> float:
        """The records of a batch."""
        return self.records or PER_CORE * self.executors * self.cores


def stage_seconds(costs: Costs, cluster: Cluster) -> float:
    """Seconds of a batch in which tasks run."""
    alone = cluster.batch * costs.executors / (cluster.executors * cluster.cores)
    if cluster.shared is None:
        return alone / 1e6
    return max(alone, cluster.batch * (costs.executors + costs.broker) / cluster.shared) / 1e6


def driver_seconds(costs: Costs, cluster: Cluster) -> float:
    """Seconds of a batch in which only the driver works: planning, starting two tasks for each core, and writing."""
    tasks = 2 * cluster.executors * cluster.cores
    return (costs.batch + tasks * costs.task) / 1e3 + cluster.batch * costs.driver / 1e6


def rate(costs: Costs, cluster: Cluster) -> float:
    """Records read per second. Spark starts a batch after the previous one was written."""
    return cluster.batch / (stage_seconds(costs, cluster) + driver_seconds(costs, cluster))


def limit(costs: Costs, cluster: Cluster) -> str:
    """What takes most of the time of a batch."""
    overhead = driver_seconds(costs, cluster) - cluster.batch * costs.driver / 1e6
    parts = {
        "executors": stage_seconds(costs, cluster),
        "the driver's writing": cluster.batch * costs.driver / 1e6,
        "the driver's planning": overhead,
    }
    return max(parts, key=lambda name: parts[name])


def most(costs: Costs) -> float:
    """Records read per second with any number of executors: what each core adds to the driver's part of a batch
    remains. That is two tasks, and the outputs of PER_CORE records that go through the driver.
    """
    return PER_CORE / (2 * costs.task / 1e3 + PER_CORE * costs.driver / 1e6)
