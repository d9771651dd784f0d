"""Input formats, by the name a user gives. A parser turns chunks of decoded input into `Rows` and counts oddities."""

from reader.parsers.libsvm import LibsvmParser

READERS = {
    "libsvm": LibsvmParser,
}
