/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Every time-out of the host side, in one place: three profiles, and every value can be set by
 * itself. Pure; `weft explain-timeouts` prints what happens when, from the same table.
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
	/* A path, from the first packet of its TCP connection until its controller is identified.
	 */
	uint32_t connect_ms;
	/* KATO: the controller ends itself when it has heard nothing for so long. */
	uint32_t keep_alive_ms;
	/* A command without an answer for so long fails its path. */
	uint32_t command_ms;
	/* A path that owes us an answer and from which nothing came for so long is lost. A third of
	 * it after the last byte, the controller is asked (Keep Alive), so that a slow medium is
	 * not taken for a dead link. At least four round trips of the transport. 0: only the other
	 * time-outs count. */
	uint32_t silence_ms;
	/* TCP_USER_TIMEOUT: data that the peer's kernel does not acknowledge for so long. */
	uint32_t unacked_ms;
	/* Before each attempt to connect again: doubles from the first to the second, and a random
	 * part of jitter_percent is taken off. */
	uint32_t reconnect_min_ms;
	uint32_t reconnect_max_ms;
	uint32_t jitter_percent;
	/* A path that was lost before it has lived so long is unstable: its back-off goes on
	 * growing where it was, and it is used only when there is no stable one, until it has. */
	uint32_t stable_ms;
	/* I/O without a usable path for so long fails (never before it is certain that it will not
	 * run later). 0: it waits for ever. */
	uint32_t fast_io_fail_ms;
	/* A path that could not be connected for so long counts as lost for good in reports and is
	 * tried only every reconnect_max_ms. Nothing is ever deleted. 0: never. */
	uint32_t ctrl_loss_ms;
	/* What a target that reports no CQT is given to end its commands after KATO. */
	uint32_t quiesce_ms;
	/* A Cross-Controller Reset that is not done after so long is tried on another path, if
	 * there is one that can be asked. */
	uint32_t reset_ms;
};

void host_timeouts_fill(struct host_timeouts *timeouts, enum host_profile profile);
/* 0, or -EINVAL: no such profile. */
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

/* "name=value": value with an optional unit (ms, s, m, h; %), else milliseconds. 0; or -EINVAL with
 * a text that names the thing and the remedy in error. */
int host_timeouts_set(struct host_timeouts *timeouts, const char *assignment, char *error,
		      size_t error_bytes);
/* 0; or -EINVAL when values contradict each other (silence above keep-alive, min above max, ...).
 */
int host_timeouts_check(const struct host_timeouts *timeouts, char *error, size_t error_bytes);

/*
 * When the controller that got its last command at time 0 has ended all its commands, if nobody
 * resets it: KATO passes, then it has CQT. One that counts traffic as a sign of life (TBKAS) looks
 * only at the end of each interval of KATO, so it takes up to two of them. NVMe Base 2.1, sections
 * 3.9 and 9.6.
 */
uint64_t host_timeouts_fence_ms(uint32_t kato_ms, uint32_t quiesce_ms, bool counts_traffic);
/* Commands are looked at once in so long: that late command_ms may be noticed. */
uint32_t host_timeouts_look_ms(uint32_t command_ms);

/* What may go wrong with a path while commands are under way on it, and how long I/O waits at
 * most. */
struct host_fault {
	const char *name;     /* for programs: "target-killed", ... */
	const char *title;    /* for people */
	const char *found_by; /* name of the time-out, or "reset" or "status" from the other end */
	uint64_t found_ms;    /* from the fault until the path is given up */
	uint64_t read_ms;     /* until what changes nothing runs on another path */
	uint64_t write_reset_ms; /* until writes do: with a Cross-Controller Reset that takes all it
				    may, ... */
	uint64_t write_time_ms;  /* ... and by time alone */
};
#define HOST_FAULTS_MAX 8
/* How many there are. */
unsigned host_timeouts_faults(const struct host_timeouts *timeouts,
			      struct host_fault faults[HOST_FAULTS_MAX]);

/* The page of `weft explain-timeouts`: what happens when. Returns the length that all of it has. */
size_t host_timeouts_explain(const struct host_timeouts *timeouts, const char *profile_name,
			     char *text, size_t text_bytes);

#endif
