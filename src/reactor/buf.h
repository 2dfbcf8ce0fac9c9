/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A buffer: an address, and what is known about the memory behind it. By value; whoever has one
 * gives it back to where it came from.
 *
 * Memory that a device shall reach (verbs, registered buffers of a ring) is registered in regions
 * beforehand. A buffer names its region, so that a transport finds its own key for it by a number,
 * and not by comparing addresses.
 */
#ifndef WEFT_REACTOR_BUF_H
#define WEFT_REACTOR_BUF_H

#include <stdint.h>

enum buf_kind {
	BUF_NONE,   /* no memory: addr is NULL */
	BUF_POOL,   /* of a pool (buf_pool.h), for its holder alone */
	BUF_OWN,    /* made for its holder alone, in no region */
	BUF_MAPPED, /* a medium's own memory, which others read and change meanwhile */
};

struct buf {
	uint8_t *addr;
	enum buf_kind kind;
	uint32_t key; /* BUF_POOL: the number of its region (buf_pool_get_regions); else 0 */
};

#endif
