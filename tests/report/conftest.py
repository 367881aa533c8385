"""Records made up for the tests of tables and figures."""

from ..made_up_records import make_record as make_record
from ..made_up_records import write_grid as write_grid
