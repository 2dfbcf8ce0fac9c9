/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tenants of the second namespace of the multipath world, whose identity and format do not last: it
 * is deleted and another one gets its NSID, its block size changes, and a wrong machine gets the
 * address of a port. Tenants read, write, zero and deallocate bytes of their own through handles of
 * one or two mpaths, each on its reactor. One thread; troubles strike from the control reactor,
 * with numbers of their own.
 *
 * Judged at the medium: bytes change only while a command is under way that names them, in the
 * format and for the namespace that it was made for. Judged at the host: a read returns what was
 * written through handles of the same namespace, and the handle of a replaced one is stale for
 * good.
 */
#ifndef WEFT_TESTS_SIM_TENANT_H
#define WEFT_TESTS_SIM_TENANT_H

#include "mpath_world.h"
#include "sim_model.h"

#define TENANTS_MAX       8
#define TENANT_LIVES_MAX  64
#define TENANT_SECTOR     512 /* bytes; what models count in */
#define TENANT_SECTORS    (MWORLD_BLOCKS * MWORLD_BLOCK_BYTES / TENANT_SECTOR / TENANTS_MAX)
#define TENANT_DATA_BYTES (2 * MWORLD_BLOCK_BYTES)
#define TENANT_HANDLES    8 /* replaced ones that it looks at again at the end */

struct mrun;

enum tenant_kind {
	TENANT_READ,
	TENANT_WRITE,
	TENANT_ZEROES,
	TENANT_DEALLOCATE,
};

struct tenant_handle {
	struct mpath_ns *ns;
	unsigned life;
};

struct tenant {
	struct mpath_io io; /* first: found from it */
	struct iovec iov;
	struct mrun *run;
	unsigned index;
	unsigned mpath; /* 0: the world's, 1: the second one's */
	struct reactor_timer timer;
	struct tenant_handle handle; /* of the command under way, or the next one */
	struct tenant_handle old[TENANT_HANDLES];
	unsigned old_count;
	enum tenant_kind kind;
	uint32_t block_bytes; /* that the command is made for */
	uint64_t sector;
	uint64_t sector_count;
	uint64_t value;
	uint64_t start;
	bool is_busy;
	bool has_changed; /* bytes, on the medium */
	bool is_sweeping;
	bool is_looking_back; /* at a handle of before */
	uint64_t swept;       /* sectors read after the troubles */
	unsigned olds_seen;
	uint8_t data[TENANT_DATA_BYTES];
};

struct tenants {
	bool is_on;
	struct prng prng;
	uint32_t replace_one_in; /* per trouble, each */
	uint32_t format_one_in;
	uint32_t twin_one_in;
	bool has_second; /* mpath, on a reactor of its own */
	bool is_clone;   /* twins differ in nothing but their data: CNTLIDs or instances tell */
	bool is_wide;    /* the target has two reactors */
	unsigned count;
	struct tenant tenants[TENANTS_MAX];
	struct model *models[TENANT_LIVES_MAX];
	uint64_t next_value;
	/* The second mpath. */
	struct reactor *reactor;
	struct mpath *mpath;
	bool is_gone;
	struct join *join;
	uint64_t commands, stale, replaced, formatted, twins, refusals;
};

/* In features of the world, from FEATURE_TENANT on. */
enum tenant_feature {
	TENANT_REPLACEMENTS,
	TENANT_FORMATS,
	TENANT_TWINS,
	TENANT_SECOND_MPATH,
	TENANT_TWO_REACTORS,
	TENANT_FEATURES,
};
#define TENANT_FEATURE_NAMES "replacements", "formats", "twins", "second_mpath", "two_reactors"

/* What the seed has of these. */
void tenants_choose(struct tenants *tenants, uint64_t seed, bool is_two);
/* Takes away what the scenario switches off; feature() is asked for each. */
void tenants_shrink(struct tenants *tenants,
		    bool (*feature)(void *arg, unsigned feature, bool is_chosen), void *arg);
/* Before the world connects. */
void tenants_prepare(struct mrun *run);
/* After that. */
void tenants_start(struct mrun *run);
/* At each trouble. */
void tenants_strike(struct mrun *run);
/* The troubles are over; outside of every reactor, before the last apply. */
void tenants_heal(struct mrun *run);
/* sim_tenant.c: their commands. */
void tenants_begin(struct mrun *run);
bool tenants_are_well(struct mrun *run);
/* Closes the second mpath. False: that does not end. */
bool tenants_close(struct mrun *run);
void tenants_free(struct mrun *run);

#endif
