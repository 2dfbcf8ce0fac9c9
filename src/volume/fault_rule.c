/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Parses one rule of a fault medium: "KIND[:OPTION=VALUE...]". Control thread, strings only.
 *
 * Refuses a rule that could never act as intended (tear on reads, a delay without ms=): a fault
 * that silently does nothing makes a test that cannot fail.
 */
#include "volume/fault_rule.h"

#include "base/text.h"
#include "media/spec.h"

#include <errno.h>
#include <string.h>

#define BIT(kind) (1u << (kind))
#define KINDS_ANY                                                                                  \
	(BIT(MEDIA_READ) | BIT(MEDIA_WRITE) | BIT(MEDIA_FLUSH) | BIT(MEDIA_WRITE_ZEROES) |         \
	 BIT(MEDIA_DISCARD))
#define DELAY_MAX_MS 3600000u
#define ERRNO_MAX    200

static const struct {
	const char *name;
	uint32_t kinds_default;
	uint32_t kinds_allowed;
} actions[] = {
	[FAULT_FAIL] = {"fail", KINDS_ANY, KINDS_ANY},
	[FAULT_DELAY] = {"delay", KINDS_ANY, KINDS_ANY},
	[FAULT_STUCK] = {"stuck", KINDS_ANY, KINDS_ANY},
	[FAULT_TEAR] = {"tear", BIT(MEDIA_WRITE), BIT(MEDIA_WRITE)},
	[FAULT_SPLIT] = {"split", BIT(MEDIA_READ) | BIT(MEDIA_WRITE),
			 BIT(MEDIA_READ) | BIT(MEDIA_WRITE)},
	[FAULT_CORRUPT] = {"corrupt", BIT(MEDIA_READ), BIT(MEDIA_READ)},
	[FAULT_LOSE] = {"lose", BIT(MEDIA_WRITE), KINDS_ANY & ~BIT(MEDIA_READ)},
	[FAULT_LATE] = {"late", FAULT_KIND_OPEN, FAULT_KIND_OPEN},
};

static int parse_op(const char *value, uint32_t *ret_kinds, struct media_error *ret_error)
{
	static const struct {
		const char *name;
		uint32_t kinds;
	} names[] = {
		{"read", BIT(MEDIA_READ)},
		{"write", BIT(MEDIA_WRITE)},
		{"flush", BIT(MEDIA_FLUSH)},
		{"zero", BIT(MEDIA_WRITE_ZEROES)},
		{"discard", BIT(MEDIA_DISCARD)},
		{"any", KINDS_ANY},
		{"fua", BIT(MEDIA_WRITE) | BIT(MEDIA_WRITE_ZEROES)},
		{"open", FAULT_KIND_OPEN},
	};

	for (unsigned i = 0; i < ARRAY_LEN(names); i++) {
		if (strcmp(names[i].name, value) == 0) {
			*ret_kinds = names[i].kinds;
			return 0;
		}
	}
	return media_fail(
		ret_error, -EINVAL,
		"fault: op=%.40s: known: read, write, flush, zero, discard, fua, any, open", value);
}

static int parse_errno(const char *value, int *ret_error_code, struct media_error *ret_error)
{
	for (int code = 1; code < ERRNO_MAX; code++) {
		const char *name = strerrorname_np(code);

		if (name && strcmp(name, value) == 0) {
			*ret_error_code = -code;
			return 0;
		}
	}
	return media_fail(ret_error, -EINVAL,
			  "fault: errno=%.40s: not the name of an error such as EIO or ENOSPC",
			  value);
}

static int parse_number(const char *name, const char *value, uint64_t min, uint64_t max,
			uint64_t *ret_value, struct media_error *ret_error)
{
	if (text_parse_u64(value, max, ret_value) < 0 || *ret_value < min)
		return media_fail(ret_error, -EINVAL,
				  "fault: %s=%.40s: a number from %llu to %llu is needed", name,
				  value, (unsigned long long)min, (unsigned long long)max);
	return 0;
}

static int parse_option(struct fault_rule_text *rule, const char *name, const char *value,
			struct media_error *ret_error)
{
	uint64_t number = 0;
	int res;

	if (strcmp(name, "op") == 0) {
		rule->only_fua = strcmp(value, "fua") == 0;
		return parse_op(value, &rule->kinds, ret_error);
	}
	if (strcmp(name, "errno") == 0)
		return parse_errno(value, &rule->error, ret_error);
	if (strcmp(name, "after") == 0)
		return parse_number(name, value, 0, INT64_MAX, &rule->after, ret_error);
	if (strcmp(name, "count") == 0)
		return parse_number(name, value, 1, INT64_MAX, &rule->count, ret_error);
	if (strcmp(name, "every") == 0)
		return parse_number(name, value, 1, INT64_MAX, &rule->every, ret_error);
	if (strcmp(name, "seed") == 0)
		return parse_number(name, value, 0, UINT64_MAX, &rule->seed, ret_error);
	if (strcmp(name, "prob") == 0) {
		res = parse_number(name, value, 1, 100, &number, ret_error);
		rule->prob_percent = (uint32_t)number;
		return res;
	}
	if (strcmp(name, "ms") == 0) {
		res = parse_number(name, value, 1, DELAY_MAX_MS, &number, ret_error);
		rule->delay_ms = (uint32_t)number;
		return res;
	}
	return media_fail(ret_error, -EINVAL,
			  "fault: unknown option \"%.40s\"; known: op=, after=, count=, every=, "
			  "prob=, seed=, errno=, ms=",
			  name);
}

static int check_rule(const struct fault_rule_text *rule, struct media_error *ret_error)
{
	const char *name = actions[rule->action].name;
	bool takes_time = rule->action == FAULT_DELAY || rule->action == FAULT_STUCK ||
			  rule->action == FAULT_SPLIT || rule->action == FAULT_LATE;

	if (rule->kinds & ~actions[rule->action].kinds_allowed)
		return media_fail(ret_error, -EINVAL, "fault: %s does not support this op=", name);
	if (takes_time && rule->delay_ms == 0)
		return media_fail(ret_error, -EINVAL, "fault: %s needs ms=", name);
	if (!takes_time && rule->delay_ms != 0)
		return media_fail(ret_error, -EINVAL,
				  "fault: ms= is for delay, stuck, split and late, not for %s",
				  name);
	if (rule->error != 0 && rule->action != FAULT_FAIL && rule->action != FAULT_TEAR &&
	    rule->action != FAULT_LATE)
		return media_fail(ret_error, -EINVAL,
				  "fault: errno= is for fail and tear, and for late, not for %s",
				  name);
	if (rule->action == FAULT_LATE && (rule->after != 0 || rule->every != 1 ||
					   rule->count != UINT64_MAX || rule->prob_percent != 100))
		return media_fail(ret_error, -EINVAL,
				  "fault: late takes only op=open, ms= and errno=");
	return 0;
}

int fault_rule_parse(char *text, struct fault_rule_text *ret_rule, struct media_error *ret_error)
{
	char *rest = text;
	char *piece = strsep(&rest, ":");
	unsigned action = 0;
	int res;

	while (action < ARRAY_LEN(actions) && strcmp(actions[action].name, piece) != 0)
		action++;
	if (action == ARRAY_LEN(actions))
		return media_fail(ret_error, -EINVAL,
				  "fault: unknown rule \"%.40s\"; known: fail, delay, "
				  "stuck, tear, split, corrupt, lose, late",
				  piece);
	*ret_rule = (struct fault_rule_text){
		.action = (enum fault_action)action,
		.kinds = actions[action].kinds_default,
		.count = UINT64_MAX,
		.every = 1,
		.prob_percent = 100,
	};
	while ((piece = strsep(&rest, ":"))) {
		char *value = strchr(piece, '=');

		if (!value)
			return media_fail(ret_error, -EINVAL,
					  "fault: \"%.40s\" is not OPTION=VALUE", piece);
		*value++ = '\0';
		res = parse_option(ret_rule, piece, value, ret_error);
		if (res < 0)
			return res;
	}
	res = check_rule(ret_rule, ret_error);
	if (res == 0 && ret_rule->error == 0 && ret_rule->action != FAULT_LATE)
		ret_rule->error = -EIO;
	return res;
}
