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
 * Index of the first of `count` entries that is not below: where the wanted entry is, or belongs.
 * `count` when all are below. `is_below` is an expression of the index `i`; in ascending order of
 * the entries it is true for the first ones and false from then on.
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
