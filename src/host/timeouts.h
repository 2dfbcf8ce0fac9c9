/* SPDX-License-Identifier: Apache-2.0 */
/*
 * All time-outs of the host side: three profiles, and each value can be set by name. Pure. `weft
 * explain-timeouts` prints what happens when, from the same table.
 */
#ifndef WEFT_HOST_TIMEOUTS_H
#define WEFT_HOST_TIMEOUTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum host_profile {
	HOST_PROFILE_DEFAULT,
	HOST_PROFILE_TRAINING, /* fail over fast */
	HOST_PROFILE_DATABASE, /* conservative */
};

struct host_timeouts {
	/* Limit from the first packet of a path's TCP connection until its controller is
	 * identified. */
	uint32_t connect_ms;
	/* KATO: the controller ends itself when it has received nothing for this time. */
	uint32_t keep_alive_ms;
	/* A command that is not answered within this time fails its path. */
	uint32_t command_ms;
	/* A path that owes an answer and from which no byte came for this time is lost. A Keep
	 * Alive is sent a third of this time after the last byte, so that a slow medium is not
	 * taken for a dead link. At least four round trips of the transport. 0: off, only the other
	 * time-outs count. */
	uint32_t silence_ms;
	/* TCP_USER_TIMEOUT: the peer's kernel must acknowledge data within this time. */
	uint32_t unacked_ms;
	/* Wait before each attempt to reconnect: doubles from min to max. A random part of up to
	 * jitter_percent is subtracted. */
	uint32_t reconnect_min_ms;
	uint32_t reconnect_max_ms;
	uint32_t jitter_percent;
	/* A path that was lost earlier than this after it became live is unstable, until it has
	 * been live for this time. Its back-off continues to grow, and it is used only when no
	 * stable path is usable. */
	uint32_t stable_ms;
	/* I/O fails that had no usable path for this time, but only when it is certain that the I/O
	 * will not run later. 0: I/O waits for ever. */
	uint32_t fast_io_fail_ms;
	/* A path that could not be connected for this time is reported as lost for good, and is
	 * tried only every reconnect_max_ms. The path is never deleted. 0: never. */
	uint32_t ctrl_loss_ms;
	/* Time to end commands after KATO that is assumed for a target without CQT. */
	uint32_t quiesce_ms;
	/* A Cross-Controller Reset that takes longer than this is tried on another path, if one can
	 * be asked. */
	uint32_t reset_ms;
};

void host_timeouts_fill(struct host_timeouts *timeouts, enum host_profile profile);
/* 0, or -EINVAL: unknown profile. */
int host_profile_parse(const char *name, enum host_profile *ret_profile);
const char *host_profile_name(enum host_profile profile);

/* A value by its name, for options of the form name=milliseconds: "keep-alive", "silence", ... */
struct host_timeout_field {
	const char *name;
	const char *help; /* one line, for --help and manual pages */
	size_t offset;    /* of a uint32_t in struct host_timeouts */
	uint32_t min;
	uint32_t max;
	bool may_be_zero;
	bool is_percent; /* else milliseconds */
};
extern const struct host_timeout_field host_timeout_fields[];
extern const unsigned host_timeout_field_count;

/* Sets one value from "name=value". The value may have a unit (ms, s, m, h; %), default
 * milliseconds. 0, or -EINVAL with a text in error that names the mistake and the remedy. */
int host_timeouts_set(struct host_timeouts *timeouts, const char *assignment, char *error,
		      size_t error_bytes);
/* 0, or -EINVAL with a text in error when values contradict each other (silence not below
 * keep-alive, min above max, ...). */
int host_timeouts_check(const struct host_timeouts *timeouts, char *error, size_t error_bytes);

/*
 * The time after which a controller has ended all its commands, counted from the last command that
 * it received, if it is not reset: KATO passes, then the controller has CQT. A controller that
 * counts traffic as a sign of life (TBKAS) checks only at the end of each interval of KATO, so up
 * to two intervals pass. NVMe Base 2.1, sections 3.9 and 9.6.
 */
uint64_t host_timeouts_fence_ms(uint32_t kato_ms, uint32_t quiesce_ms, bool counts_traffic);
/* The interval at which commands are checked for a time-out: the most that detection may be
 * late. */
uint32_t host_timeouts_look_ms(uint32_t command_ms);

/* A fault of a path with commands in flight, and how long I/O waits at most. */
struct host_fault {
	const char *name;  /* for programs: "target-killed", ... */
	const char *title; /* for people */
	/* Name of the time-out, or "reset" or "status" from the controller's side. */
	const char *found_by;
	uint64_t found_ms; /* from the fault until the path is given up */
	uint64_t read_ms;  /* until commands that change nothing run on another path */
	/* Until writes run on another path: with a Cross-Controller Reset that takes the longest
	 * time allowed, and by time alone. */
	uint64_t write_reset_ms;
	uint64_t write_time_ms;
};
#define HOST_FAULTS_MAX 8
/* Fills in the faults. Returns their number. */
unsigned host_timeouts_faults(const struct host_timeouts *timeouts,
			      struct host_fault faults[HOST_FAULTS_MAX]);

/* Writes the page of `weft explain-timeouts`: what happens when. Returns the length of the whole
 * page, even if text_bytes is less. */
size_t host_timeouts_explain(const struct host_timeouts *timeouts, const char *profile_name,
			     char *text, size_t text_bytes);

#endif
