/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A small simulated world for tests of multipath: the real target with one subsystem on several
 * ports, a medium that shows when each write lands, and one host with an mpath. One thread. Tests
 * change what the members say and call mworld_apply; nothing here is random but for the seed.
 */
#ifndef WEFT_TESTS_MPATH_WORLD_H
#define WEFT_TESTS_MPATH_WORLD_H

#include "sim.h"

#include "host/mpath.h"
#include "target/target.h"

#define MWORLD_PORTS_MAX    4
#define MWORLD_NS           2
#define MWORLD_BLOCK_BYTES  4096
#define MWORLD_BLOCKS       64
#define MWORLD_LANDINGS_MAX 65536
#define MWORLD_BUSY_MAX     1024
#define MWORLD_CNTLIDS      1000 /* of each target */
#define MWORLD_TWIN         2    /* index of the twin, behind the two targets */
#define MWORLD_TARGETS      3

/* ---- the medium -------------------------------------------------------------------------------
 */

struct probe_landing {
	uint64_t at_ns;
	uint64_t block;
	uint64_t value; /* the first eight bytes */
};

struct mworld;

struct probe {
	struct media media;
	struct mworld *world;
	struct list node;        /* of the world's open probes */
	struct probe *master;    /* whose blocks these are; NULL: its own */
	unsigned users;          /* of a master: itself, and those that have its blocks */
	struct reactor *reactor; /* for the time of landings */
	uint64_t block_count;
	uint8_t *blocks;
	uint64_t next_delay_ns; /* of the next write alone */
	uint64_t delay_ns;      /* of every operation */
	bool is_deaf;           /* cancellations are not heard */
	/* On top of delay_ns, by chance; 0: never. */
	struct prng prng;
	uint64_t random_delay_us;
	uint32_t spike_one_in;
	uint64_t spike_us;
	unsigned writes_begun;
	unsigned reads_begun;
	unsigned under_way;
	struct media_io *busy[MWORLD_BUSY_MAX]; /* those under way */
	struct probe_landing landings[MWORLD_LANDINGS_MAX];
	unsigned landing_count;
	/* Which namespace this is; writes that name another one in MWORLD_LIFE bits are strays. */
	unsigned life;
	unsigned strays;
	unsigned ns; /* index of its namespace */
	bool is_of_twin;
	/* Of the probe that owns the bytes: what a loss of power leaves of them; NULL: the medium
	 * has no volatile cache. */
	uint8_t *stable;
	bool is_dark; /* the power has failed, or the process is dead: nothing is done any more, and
		       * nothing succeeds */
	/* Likewise of the owner: the kernel cannot write back what is not stable, and gives it up.
	 */
	bool is_failing;   /* every flush fails so */
	bool has_error;    /* it has happened, and the next flush is told of it */
	uint64_t loss;     /* as of a file (media/file_lasting.c), of this process */
	uint64_t forgiven; /* likewise */
	uint64_t loss_ns;  /* when that was */
};

struct probe *probe_open(struct mworld *world, uint64_t block_count);
/* The probe has the bytes of the other one from now on; before its first use. */
void probe_share(struct probe *probe, struct probe *with);
void probe_format(struct probe *probe, uint32_t block_bytes);
/* From now on writes are stable only when they are flushed, or have FUA. */
void probe_make_volatile(struct probe *probe);
/* The power fails, and is back: what was not stable is gone. */
void probe_power_fail(struct probe *probe);
void probe_power_back(struct probe *probe);
uint64_t probe_stable_value(const struct probe *probe, uint64_t block);
/* The kernel gives up what is not stable: of each block the former bytes are back, or not. */
void probe_lose(struct probe *probe);
/* Who owns the bytes. */
struct probe *probe_root(struct probe *probe);
/* What the kernel has goes on while the process that asked is stopped until then. */
void probe_freeze(struct probe *probe, struct sim *sim, const struct reactor *reactor,
		  uint64_t until_ns);

/* ---- the world --------------------------------------------------------------------------------
 */

/* By target: the second one, where there is one, serves the last port, with the blocks of the
 * first as another process would, or with its own. */
struct mworld_ns {
	struct probe *probe; /* of the first target */
	struct probe *second_probe;
	struct ns_store *stores[MWORLD_TARGETS];
	bool is_absent;
	bool is_other;      /* on the second target it has another UUID */
	unsigned life;      /* counts the namespaces that have had its NSID: part of the UUID */
	uint32_t ana_group; /* from the next apply on; 0: that of its NSID */
};

/* A wrong machine that has got the address of one of the ports: the same NQN, and blocks of its
 * own. What it has in common besides is chosen before it starts. */
struct mworld_twin {
	unsigned port;
	bool is_lent;     /* the port is not the targets' */
	bool is_up;       /* and the twin serves it */
	bool is_changing; /* it stops */
	bool is_other;    /* its namespaces have other UUIDs */
	bool is_serial_other;
	bool has_instance; /* which is another one than the target's; else it is of another make */
	uint16_t cntlid_first;
	uint16_t cntlid_last;
	unsigned life; /* counts the twins */
};

struct mworld {
	struct sim *sim;
	struct reactor *control;
	/* Of each target; the second one only where there is one, or the first has both. */
	struct reactor *datas[MWORLD_TARGETS];
	struct reactor *reactor; /* of the host */
	struct target *targets[MWORLD_TARGETS];
	struct list probes; /* all that are open, those of before a format or a replacement too */
	struct mworld_twin twin;
	unsigned target_count;
	bool is_wide; /* one target with two reactors */
	bool is_shut; /* no host is let in, from the next apply on */
	/* Set before mworld_create_two: the targets know nothing of each other's CNTLIDs. */
	bool has_equal_cntlids;
	bool is_cloned; /* likewise: they tell their instances, and are not clustered */
	struct net_addr addrs[MWORLD_PORTS_MAX];
	unsigned port_count;
	struct mworld_ns ns[MWORLD_NS];
	/* Further namespaces from the next apply on, with NSIDs behind those, all with the blocks
	 * of the last one. */
	unsigned crowd_count;
	enum ana_state ana[MWORLD_PORTS_MAX][MWORLD_NS]; /* by group, from 1 on */
	uint32_t quiesce_ms;                             /* CQT; 0: the target's default */
	uint32_t io_queues_max; /* of a controller, from the next apply on; 0: likewise */
	unsigned applying;
	unsigned stopping;
	uint64_t starts; /* of targets, so that no two are the same instance */
	struct mworld_restart {
		struct mworld *world;
		struct reactor_timer timer;
		uint64_t down_ns;
		bool is_busy;
		bool is_power; /* the machine has lost its power */
	} restarts[2];
	uint64_t boots; /* of the first target's machine */
	/* Of the first target: what it keeps of the first namespace's losses, and how often. */
	bool has_marks; /* its restarts forget what is not kept */
	bool has_kept;
	uint8_t kept_mark[8];
	uint64_t losses; /* of media */
	uint64_t marks;
	/* Acknowledged writes are lost now. May be NULL. */
	void (*on_loss)(struct mworld *world);
	void (*on_mark)(struct mworld *world); /* one was kept, on the control reactor; likewise */

	struct mpath_config config;
	struct mpath *mpath;
	struct mpath_ns *handle; /* that commands are for; NULL: what has NSID 1 now */
	unsigned ready_count;
	int ready_res;
	struct host_error ready_error;
	unsigned ns_changed_count;
	unsigned path_changed_count;
	unsigned reset_waits; /* messages that say how a fence waits or went */
	unsigned time_waits;
	char last_what[384];
	void (*on_path)(struct mworld *world, unsigned path, const char *what); /* may be NULL */
	/* A read or a change of bytes has just been done; root: the probe that owns them. May be
	 * NULL. */
	void (*on_io)(struct mworld *world, const struct probe *root, const struct media_io *io);
	bool is_gone;
};

struct mop {
	struct mpath_io io;
	struct mpath_io second;
	struct iovec iov;
	struct iovec second_iov;
	struct mworld *world;
	bool is_done;
	uint64_t done_ns;
	void (*then)(struct mop *mop);
	uint8_t data[MWORLD_BLOCK_BYTES];
	uint8_t second_data[MWORLD_BLOCK_BYTES];
};

/* With port_count ports at 10.0.0.1, 10.0.0.2, ... and short time-outs in world->config. */
void mworld_create(struct mworld *world, uint64_t seed, unsigned port_count,
		   const struct sim_options *options);
/* Likewise two targets that have nothing in common but NQN, serial number, UUIDs and CNTLIDs. */
void mworld_create_twins(struct mworld *world, uint64_t seed, const struct sim_options *options);
/* Likewise two targets whose CNTLIDs differ: only their instances tell. */
void mworld_create_clones(struct mworld *world, uint64_t seed, const struct sim_options *options);
/* Likewise, but the last port is of another target that has the same name. is_stranger: its first
 * namespace is another one. Else both serve the same blocks. */
void mworld_create_two(struct mworld *world, uint64_t seed, unsigned port_count, bool is_stranger,
		       const struct sim_options *options);
/* Likewise with one target, whose queues are on two reactors. */
void mworld_create_wide(struct mworld *world, uint64_t seed, unsigned port_count,
			const struct sim_options *options);
/* Closes the mpath where there is one, ends the target; everything must be gone. Returns how much
 * is left over. */
unsigned mworld_destroy(struct mworld *world);
/* Closes the mpath alone; 1 when that does not end. */
unsigned mworld_close(struct mworld *world);
void mworld_apply(struct mworld *world);
/* From a callback of the control reactor: the target ends, and is there again so much later. */
void mworld_restart(struct mworld *world, unsigned target, uint64_t down_ms);
/* Likewise the only target loses its power, with what the first namespace has not on stable media.
 */
void mworld_lose_power(struct mworld *world, uint64_t down_ms);
/* Likewise its process is killed. */
void mworld_kill(struct mworld *world, uint64_t down_ms);
bool mworld_is_steady(const struct mworld *world);
/* The target's process is stopped for so long; what its medium has goes on. Not from its reactor.
 */
void mworld_freeze(struct mworld *world, unsigned target, uint64_t ms);
/* The namespace has twice as many blocks from the next apply on; those of before stay. */
void mworld_grow(struct mworld *world, unsigned ns);
/* From the next apply on another namespace has the NSID, with blocks and a UUID of its own. */
void mworld_replace(struct mworld *world, unsigned ns);
/* From the next apply on the namespace has blocks of so many bytes, 512 or 4096; its data stays. */
void mworld_format(struct mworld *world, unsigned ns, uint32_t block_bytes);
/* The UUID that the namespace has on a target in one of its lives. */
void mworld_uuid(const struct mworld *world, unsigned ns, unsigned target, unsigned life,
		 struct uuid *ret_uuid);
/* From callbacks of the control reactor, while steady. world->twin says which port, and what the
 * twin has in common with its targets. First the port is taken from its target, then the twin
 * starts there; it stops, and the port is given back with the next apply. */
void mworld_twin_lend(struct mworld *world);
void mworld_twin_start(struct mworld *world);
void mworld_twin_stop(struct mworld *world);
/* For values of writes: which namespace they are meant for. */
#define MWORLD_LIFE(life) (((uint64_t)(life) + 1) << 56)
/* Does not wait: for callbacks of the control reactor. */
void mworld_apply_start(struct mworld *world);
/* Opens the mpath. */
void mworld_open(struct mworld *world);
/* Likewise, and waits for `ready`. */
void mworld_connect(struct mworld *world);
void mworld_run_ms(struct mworld *world, uint64_t ms);
/* Until fn says so, for at most so long; whether it did. */
bool mworld_until(struct mworld *world, bool (*fn)(struct mworld *world, void *arg), void *arg,
		  uint64_t limit_ms);
bool mworld_until_done(struct mop *mop, uint64_t limit_ms);
bool mworld_until_live(struct mworld *world, unsigned paths, uint64_t limit_ms);
struct path_info mworld_info(struct mworld *world, unsigned path);
uint64_t mworld_now_ms(const struct mworld *world);
struct mpath_ns *mworld_handle(struct mworld *world, uint32_t nsid);

void mop_write(struct mworld *world, struct mop *mop, uint64_t block, uint64_t value);
void mop_read(struct mworld *world, struct mop *mop, uint64_t block);
/* What its user has been told of: losses, and the number of its latest flush that failed. */
void mop_flush(struct mworld *world, struct mop *mop, uint64_t losses_told, uint64_t flush_failed);
/* Identify Controller, on any path. */
void mop_identify(struct mworld *world, struct mop *mop);
/* Compare with `expected`, then Write of `value`, fused. */
void mop_fused(struct mworld *world, struct mop *mop, uint64_t block, uint64_t expected,
	       uint64_t value);
uint64_t mop_value(const struct mop *mop);
uint64_t probe_value(const struct probe *probe, uint64_t block);
/* How often this value landed; *ret_last_ns is when it did for the last time. */
unsigned probe_landed(const struct probe *probe, uint64_t value, uint64_t *ret_last_ns);

#endif
