/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Checks NVMe Qualified Names, from the wire and from configuration. Pure; any thread. NVMe Base
 * 2.1, section 4.7. Stricter than the specification in one point: control characters are refused,
 * because names are written to logs and terminals.
 */
#include "wire/nqn.h"

#include "base/text.h"
#include "base/uuid.h"
#include "wire/nvme.h"

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#define NQN_UUID_PREFIX "nqn.2014-08.org.nvmexpress:uuid:"
#define NQN_DATE_BYTES  8 /* "yyyy-mm." */

static bool is_digit(char c)
{
	return c >= '0' && c <= '9';
}

static bool is_domain_char(char c)
{
	return is_digit(c) || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '-' ||
	       c == '_';
}

static bool has_date(const char *text)
{
	int month;

	for (int i = 0; i < 4; i++) {
		if (!is_digit(text[i]))
			return false;
	}
	if (text[4] != '-' || !is_digit(text[5]) || !is_digit(text[6]) || text[7] != '.')
		return false;
	month = (text[5] - '0') * 10 + (text[6] - '0');
	return month >= 1 && month <= 12;
}

/* True for non-empty labels of letters, digits, '-' and '_', separated by dots. */
static bool is_domain(const char *text, size_t len)
{
	bool needs_char = true;

	for (size_t i = 0; i < len; i++) {
		if (text[i] == '.') {
			if (needs_char)
				return false;
			needs_char = true;
		} else if (is_domain_char(text[i])) {
			needs_char = false;
		} else {
			return false;
		}
	}
	return !needs_char;
}

static const char *text_problem(const char *text)
{
	while (*text != '\0') {
		size_t n = text_utf8_bytes(text);

		if (n == 0)
			return "is not UTF-8";
		if ((uint8_t)*text < 0x20 || *text == 0x7f)
			return "has a control character";
		text += n;
	}
	return NULL;
}

const char *nqn_problem(const char *nqn)
{
	const char *domain, *colon;
	struct uuid uuid;

	if (nqn[0] == '\0')
		return "is empty";
	if (strnlen(nqn, NVME_NQN_BYTES) == NVME_NQN_BYTES)
		return "is longer than 223 bytes";
	if (strncmp(nqn, "nqn.", 4) != 0)
		return "does not begin with \"nqn.\"";
	if (nqn_is_discovery(nqn))
		return NULL;
	if (!has_date(nqn + 4))
		return "has no date";
	domain = nqn + 4 + NQN_DATE_BYTES;
	colon = strchr(domain, ':');
	if (colon == NULL)
		return "has no colon after the domain";
	if (!is_domain(domain, (size_t)(colon - domain)))
		return "has no reverse domain name";
	if (colon[1] == '\0')
		return "has nothing after the colon";
	if (strncmp(nqn, NQN_UUID_PREFIX, strlen(NQN_UUID_PREFIX)) == 0 &&
	    uuid_parse(nqn + strlen(NQN_UUID_PREFIX), &uuid) != 0)
		return "has a malformed UUID";
	return text_problem(colon + 1);
}

bool nqn_is_discovery(const char *nqn)
{
	return strcmp(nqn, NVME_DISCOVERY_NQN) == 0;
}
