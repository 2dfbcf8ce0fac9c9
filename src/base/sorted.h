/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Binary search in ascending arrays. A macro, because each array has entries of its own kind, and
 * some searches are on the path of I/O. Any thread that may read the array.
 *
 *     at = SORTED_PLACE(i, table->count, table->entries[i].id < id)
 */
#ifndef WEFT_BASE_SORTED_H
#define WEFT_BASE_SORTED_H

/*
 * Index of the first of `count` entries that is not below: where the wanted entry is, or would be
 * inserted. `count` when all are below. `is_below` is an expression of the index `i`. In ascending
 * order of the entries, it must be true for the first entries and false for the rest.
 */
#define SORTED_PLACE(i, count, is_below)                                                           \
	({                                                                                         \
		unsigned sorted_low_ = 0, sorted_high_ = (count);                                  \
                                                                                                   \
		while (sorted_low_ < sorted_high_) {                                               \
			unsigned i = sorted_low_ + (sorted_high_ - sorted_low_) / 2;               \
                                                                                                   \
			if (is_below)                                                              \
				sorted_low_ = i + 1;                                               \
			else                                                                       \
				sorted_high_ = i;                                                  \
		}                                                                                  \
		sorted_low_;                                                                       \
	})

#endif
