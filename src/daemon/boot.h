/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The boot that the target reports to hosts (wire/identify.h): another one when writes that were
 * acknowledged and not flushed may be lost. Hosts compare it after a loss of the target
 * (host/loss.h).
 *
 * Such writes are in the page cache of this machine, or in the caches of its disks. A kill of the
 * process loses none of them; a restart of the machine does, unless the target ended in order and
 * flushed its media before. So the boot is made of the kernel's boot ID, and the state store keeps
 * it over an orderly restart of the machine. Hosts see a hash of the boot ID.
 *
 * Control thread; blocks.
 */
#ifndef WEFT_DAEMON_BOOT_H
#define WEFT_DAEMON_BOOT_H

#include "base/uuid.h"
#include "store/store.h"
#include "wire/identify.h"

/* What is kept: of the latest start. */
struct boot_record {
	uint8_t kernel[IDENTIFY_BOOT_BYTES]; /* hash of the kernel's boot ID */
	uint8_t boot[IDENTIFY_BOOT_BYTES];   /* what hosts see */
	bool is_flushed;                     /* it ended in order: no write was left unflushed */
	bool was_flushed;                    /* so did the start before; not kept */
};

/* The record of a start under this kernel. kept: of the start before, or NULL. is_clustered: other
 * processes may write to the same files, also after the end of this one, and through the same page
 * cache when they run under the same kernel. So members of a cluster always have the kernel's boot.
 */
void boot_decide(const struct boot_record *kept, const struct uuid *kernel, bool is_clustered,
		 struct boot_record *ret_record);
/* Before any host connects: decides, and keeps. *ret_record is all zero when the kernel does not
 * tell its boot ID: hosts are told nothing then. */
void boot_begin(struct store *store, bool is_clustered, struct boot_record *ret_record);
/* The source of the marks of namespaces (target/loss.h) that this state keeps. member: our name in
 * the cluster, NULL: we are no member. A state folder may be a copy of another member's, and two
 * members under one source would each deny the marks of the other one. */
uint64_t boot_loss_source(const struct uuid *state, const char *member);
/* At the end, when every medium was flushed, or what was not has another mark, and nothing writes
 * any more. */
void boot_end_flushed(struct store *store, struct boot_record *record);

#endif
