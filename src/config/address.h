/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Whether an address can be listened on, asked before the target tries. Blocks; control thread.
 */
#ifndef WEFT_CONFIG_ADDRESS_H
#define WEFT_CONFIG_ADDRESS_H

#include "base/net_addr.h"

#include <stdint.h>

/* 0 when a listener could be opened there now, or -errno; the target has the last word. */
int address_probe(const struct net_addr *addr);
/* Waits, until the deadline at most, while somebody else still has it. */
void address_wait(const struct net_addr *addr, uint64_t deadline_ns);

#endif
