/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The discovery log of one host: what this target offers it, and where. NVMe Base 2.1, section
 * 5.1.12.3.1. Given to the target as its target_discovery_log_fn.
 */
#ifndef WEFT_DISCOVERY_DISCOVERY_H
#define WEFT_DISCOVERY_DISCOVERY_H

#include "target/target.h"

/* EFLAGS: the discovery controller of this entry keeps explicit persistent connections. */
#define DISCOVERY_FLAG_EPCSD 0x2

/*
 * Fills [offset, offset + len_bytes) of the log into buf, as far as the log reaches; what lies
 * behind its end is zeroed. Returns the log's full size in bytes. Any reactor; does not allocate.
 */
uint64_t discovery_log_read(const struct discovery_asker *asker, uint64_t offset, uint8_t *buf,
			    uint32_t len_bytes);

#endif
