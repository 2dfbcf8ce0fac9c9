/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What one host has of what all hosts share: connections, controllers, lines of the log. A host is
 * known by two names, which each have a share: the address that it comes from, which it cannot
 * choose freely, and the NQN that it claims.
 *
 * The registry's (first reactor), but for `lines`, which any thread that holds the share may use. A
 * share that nothing counts on stays for a while, so that a host that comes and goes meets the
 * limits of its log lines again; then the oldest ones go.
 */
#ifndef WEFT_TARGET_HOST_SHARE_H
#define WEFT_TARGET_HOST_SHARE_H

#include "base/list.h"
#include "base/log.h"
#include "base/net_addr.h"
#include "wire/identify.h"

struct target;

/* Connections beyond the limits, that discovery alone may use, so that hosts always find out what
 * there is: in total, and of one address. */
#define HOST_SHARE_SPARE_MAX          64
#define HOST_SHARE_SPARE_PER_HOST_MAX 4

struct host_share {
	char nqn[NVME_NQN_BYTES]; /* empty: the share of an address */
	struct net_addr addr;
	uint32_t connections;     /* of an address */
	uint32_t io_ctrls;        /* controllers that are not for discovery */
	uint32_t discovery_ctrls; /* those that are */
	struct log_limit lines;   /* of an address: coming and going */
	struct list node;         /* in target->shares, or target->idle_shares */
};

/* Found or made; NULL when out of memory. */
struct host_share *host_share_of_addr(struct target *target, const struct net_addr *addr);
struct host_share *host_share_of_nqn(struct target *target, const char *nqn);
/* To be called when one of the counts went down, or a new share was not used after all. */
void host_share_settle(struct target *target, struct host_share *share);
void host_shares_destroy(struct target *target);

#endif
