/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A buffer: an address, and what is known about the memory behind it. Passed by value; the holder
 * returns the buffer to where it came from.
 *
 * Memory that a device accesses (verbs, registered buffers of a ring) is registered in regions
 * beforehand. A buffer names its region by a number, so that a transport finds its own key without
 * comparing addresses.
 */
#ifndef WEFT_REACTOR_BUF_H
#define WEFT_REACTOR_BUF_H

#include <stdint.h>

enum buf_kind {
	BUF_NONE,   /* no memory: addr is NULL */
	BUF_POOL,   /* from a pool (buf_pool.h), for its holder alone */
	BUF_OWN,    /* allocated for its holder alone, in no region */
	BUF_MAPPED, /* a medium's own memory, which others read and change meanwhile */
};

struct buf {
	uint8_t *addr;
	enum buf_kind kind;
	uint32_t key; /* BUF_POOL: number of the region (buf_pool_get_regions); otherwise 0 */
};

#endif
