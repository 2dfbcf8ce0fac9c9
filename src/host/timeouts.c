/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The time-outs of the host side: three profiles, and values by name. Pure; any thread. Their
 * consequences are computed in timeouts_explain.c.
 *
 * How the values were chosen. Silence detects a dead path. The limit must be longer than any pause
 * that a healthy path makes (a retransmission takes 200 ms at least, two in a row 600 ms), because
 * a path that is given up by mistake costs a failover. KATO does not detect the dead path. KATO
 * makes sure that the lost controller ends when it cannot be reset: I/O then waits for twice KATO
 * and CQT. So a smaller KATO is better, until the Keep Alives of many controllers become a load of
 * their own.
 */
#include "host/timeouts.h"

#include "base/check.h"
#include "base/text.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#define TIMEOUTS_LOOKS 8 /* a command's time-out is detected at most an eighth late */

static const struct host_timeouts host_profiles[] = {
	/* A silent death is detected in under a second. One lost packet, or two in a row, are
	 * survived. An outage of two minutes is longer than a restart of a target and shorter than
	 * people wait. */
	[HOST_PROFILE_DEFAULT] =
		{
			.connect_ms = 5000,
			.keep_alive_ms = 5000,
			.command_ms = 30000,
			.silence_ms = 800,
			.unacked_ms = 1000,
			.reconnect_min_ms = 100,
			.reconnect_max_ms = 5000,
			.jitter_percent = 25,
			.stable_ms = 5000,
			.fast_io_fail_ms = 120000,
			.ctrl_loss_ms = 600000,
			.quiesce_ms = 5000,
			.reset_ms = 2000,
		},
	/*
	 * A step of a training job waits for its slowest reader: a false alarm costs milliseconds,
	 * an undetected dead path costs the step of every machine. Quiet networks are assumed (one
	 * retransmission fits into silence, two do not). I/O fails after a minute, before the
	 * collectives of the job time out, and the job restarts from its checkpoint.
	 */
	[HOST_PROFILE_TRAINING] =
		{
			.connect_ms = 2000,
			.keep_alive_ms = 1000,
			.command_ms = 10000,
			.silence_ms = 300,
			.unacked_ms = 500,
			.reconnect_min_ms = 20,
			.reconnect_max_ms = 1000,
			.jitter_percent = 25,
			.stable_ms = 2000,
			.fast_io_fail_ms = 60000,
			.ctrl_loss_ms = 300000,
			.quiesce_ms = 5000,
			/* More than fencing a stalled peer takes (answer_ms, 500). */
			.reset_ms = 1000,
		},
	/* An I/O error is worse than a pause: I/O is never given up, and a pause of a few seconds
	 * (a live migration, a switch that restarts) does not lose a path. */
	[HOST_PROFILE_DATABASE] =
		{
			.connect_ms = 15000,
			.keep_alive_ms = 10000,
			.command_ms = 60000,
			.silence_ms = 3000,
			.unacked_ms = 5000,
			.reconnect_min_ms = 500,
			.reconnect_max_ms = 10000,
			.jitter_percent = 25,
			.stable_ms = 30000,
			.fast_io_fail_ms = 0,
			.ctrl_loss_ms = 0,
			.quiesce_ms = 15000,
			.reset_ms = 5000,
		},
};

static const char *const host_profile_names[] = {
	[HOST_PROFILE_DEFAULT] = "default",
	[HOST_PROFILE_TRAINING] = "training",
	[HOST_PROFILE_DATABASE] = "database",
};

#define FIELD(member) offsetof(struct host_timeouts, member)
#define HOUR_MS       3600000
#define DAY_MS        86400000

const struct host_timeout_field host_timeout_fields[] = {
	{"connect", "limit for connecting a path, until the controller is identified",
	 FIELD(connect_ms), 10, HOUR_MS, false, false},
	{"keep-alive", "KATO: time without a command after which the controller ends itself",
	 FIELD(keep_alive_ms), 100, HOUR_MS, false, false},
	{"command", "time without an answer to a command after which the path is lost",
	 FIELD(command_ms), 10, DAY_MS, false, false},
	{"silence", "time without data while an answer is due: the path is lost; 0: off",
	 FIELD(silence_ms), 30, HOUR_MS, true, false},
	{"unacked", "time without acknowledgement of sent data by the peer's kernel",
	 FIELD(unacked_ms), 10, HOUR_MS, false, false},
	{"reconnect-min", "wait before the first attempt to reconnect; doubles with each attempt",
	 FIELD(reconnect_min_ms), 1, HOUR_MS, false, false},
	{"reconnect-max", "longest wait between two attempts", FIELD(reconnect_max_ms), 1, HOUR_MS,
	 false, false},
	{"jitter", "largest random part that is subtracted from the wait, in percent",
	 FIELD(jitter_percent), 0, 90, true, true},
	{"stable", "a path lost sooner than this is used last, and the wait keeps doubling",
	 FIELD(stable_ms), 1, HOUR_MS, true, false},
	{"fast-io-fail", "time without a path after which I/O fails; 0: I/O waits for ever",
	 FIELD(fast_io_fail_ms), 1, DAY_MS, true, false},
	{"ctrl-loss", "time after which a path that is down is reported as lost; 0: never",
	 FIELD(ctrl_loss_ms), 1, DAY_MS, true, false},
	{"quiesce", "time for a target without CQT to end commands after KATO", FIELD(quiesce_ms),
	 1, HOUR_MS, false, false},
	{"reset", "time after which a Cross-Controller Reset is tried on another path",
	 FIELD(reset_ms), 1, HOUR_MS, false, false},
};
const unsigned host_timeout_field_count = ARRAY_LEN(host_timeout_fields);

void host_timeouts_fill(struct host_timeouts *timeouts, enum host_profile profile)
{
	CHECK((size_t)profile < ARRAY_LEN(host_profiles));
	*timeouts = host_profiles[profile];
}

int host_profile_parse(const char *name, enum host_profile *ret_profile)
{
	for (size_t i = 0; i < ARRAY_LEN(host_profile_names); i++) {
		if (strcmp(name, host_profile_names[i]) == 0) {
			*ret_profile = (enum host_profile)i;
			return 0;
		}
	}
	return -EINVAL;
}

const char *host_profile_name(enum host_profile profile)
{
	return (size_t)profile < ARRAY_LEN(host_profile_names) ? host_profile_names[profile]
							       : "unknown";
}

__attribute__((format(printf, 3, 4))) static int timeouts_fail(char *error, size_t error_bytes,
							       const char *format, ...)
{
	va_list args;

	va_start(args, format);
	vsnprintf(error, error_bytes, format, args);
	va_end(args);
	return -EINVAL;
}

static const struct host_timeout_field *timeouts_field_find(const char *name, size_t name_len)
{
	for (unsigned i = 0; i < host_timeout_field_count; i++) {
		const char *known = host_timeout_fields[i].name;

		if (strlen(known) == name_len && memcmp(known, name, name_len) == 0)
			return &host_timeout_fields[i];
	}
	return NULL;
}

static int timeouts_unknown(const char *name, size_t name_len, char *error, size_t error_bytes)
{
	size_t len;

	timeouts_fail(error, error_bytes,
		      "unknown time-out \"%.*s\"; known:", name_len > 40 ? 40 : (int)name_len,
		      name);
	for (unsigned i = 0; i < host_timeout_field_count; i++) {
		len = strnlen(error, error_bytes);
		timeouts_fail(error + len, error_bytes - len, "%s %s", i > 0 ? "," : "",
			      host_timeout_fields[i].name);
	}
	return -EINVAL;
}

/* A bare number has the unit of the field. */
static int timeouts_parse_value(const struct host_timeout_field *field, const char *text,
				uint64_t *ret_value)
{
	char number[24];
	size_t len = strlen(text);

	if (text_parse_u64(text, UINT32_MAX, ret_value) == 0)
		return 0;
	if (!field->is_percent)
		return text_parse_duration_ms(text, ret_value);
	if (len < 2 || len >= sizeof(number) || text[len - 1] != '%')
		return -EINVAL;
	text_copy(number, len, text);
	return text_parse_u64(number, UINT32_MAX, ret_value);
}

int host_timeouts_set(struct host_timeouts *timeouts, const char *assignment, char *error,
		      size_t error_bytes)
{
	const char *equals = strchr(assignment, '=');
	const struct host_timeout_field *field;
	const char *unit;
	uint64_t value = 0;
	uint32_t stored;

	if (!equals)
		return timeouts_fail(error, error_bytes,
				     "\"%.60s\" sets no time-out: write name=value, such as "
				     "silence=500ms",
				     assignment);
	field = timeouts_field_find(assignment, (size_t)(equals - assignment));
	if (!field)
		return timeouts_unknown(assignment, (size_t)(equals - assignment), error,
					error_bytes);
	if (timeouts_parse_value(field, equals + 1, &value) != 0)
		return timeouts_fail(error, error_bytes, "%s: \"%.40s\" is no %s", field->name,
				     equals + 1,
				     field->is_percent ? "percentage: write a number such as 25"
						       : "time: write a number with ms, s, m or "
							 "h, such as 500ms");
	unit = field->is_percent ? "%" : " ms";
	if (value > field->max || (value < field->min && !(value == 0 && field->may_be_zero)))
		return timeouts_fail(error, error_bytes,
				     "%s: %.40s is out of range: %u%s to %u%s%s", field->name,
				     equals + 1, field->min, unit, field->max, unit,
				     field->may_be_zero && field->min > 0 ? ", or 0" : "");
	stored = (uint32_t)value;
	memcpy((char *)timeouts + field->offset, &stored, sizeof(stored));
	return 0;
}

int host_timeouts_check(const struct host_timeouts *t, char *error, size_t error_bytes)
{
	if (t->reconnect_min_ms > t->reconnect_max_ms)
		return timeouts_fail(error, error_bytes,
				     "reconnect-min (%u ms) is above reconnect-max (%u ms)",
				     t->reconnect_min_ms, t->reconnect_max_ms);
	/* Silence must end before KATO ends the controller, so that a dead path is given up
	 * first. */
	if (t->silence_ms >= t->keep_alive_ms)
		return timeouts_fail(error, error_bytes,
				     "silence (%u ms) must be below keep-alive (%u ms): the "
				     "controller would end before its path is given up",
				     t->silence_ms, t->keep_alive_ms);
	if (t->silence_ms > t->command_ms)
		return timeouts_fail(error, error_bytes,
				     "silence (%u ms) is above command (%u ms): every command "
				     "would time out first",
				     t->silence_ms, t->command_ms);
	if (t->ctrl_loss_ms != 0 && t->ctrl_loss_ms < t->reconnect_max_ms)
		return timeouts_fail(error, error_bytes,
				     "ctrl-loss (%u ms) is below reconnect-max (%u ms): a path "
				     "would be given up between two attempts",
				     t->ctrl_loss_ms, t->reconnect_max_ms);
	return 0;
}

uint64_t host_timeouts_fence_ms(uint32_t kato_ms, uint32_t quiesce_ms, bool counts_traffic)
{
	return (uint64_t)kato_ms * (counts_traffic ? 2 : 1) + quiesce_ms;
}

uint32_t host_timeouts_look_ms(uint32_t command_ms)
{
	uint32_t look_ms = command_ms / TIMEOUTS_LOOKS;

	if (look_ms > 1000)
		look_ms = 1000;
	return look_ms > 0 ? look_ms : 1;
}
