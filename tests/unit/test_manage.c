/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Hosts' management commands as edits of the document, and the statuses of refusals: every kind of
 * command with every refusal that the specification defines. A resulting document must load.
 */
#include "config/config_parse.h"
#include "daemon/manage.h"

#include "tap.h"

#include <errno.h>
#include <stdlib.h>

#define NQN "nqn.2026-11.io.weft:m"
#define H1  "nqn.2014-08.org.example:h1"
#define H2  "nqn.2014-08.org.example:h2"

typedef int (*edit_fn)(json_t *document, struct manage_edit *edit, struct config_errors *errors);

static struct config_errors errors;
static struct manage_request request;
static struct manage_edit edit;
static json_t *document;

static const char *const start =
	"{\"version\":1,\"subsystems\":[{\"nqn\":\"" NQN "\","
	"\"pool\":{\"folder\":\"/pool\",\"capacity\":\"10M\"},\"namespaces\":["
	"{\"nsid\":1,\"media\":\"mem:1M\"},"
	"{\"nsid\":2,\"media\":\"mem:1M\",\"hosts\":[\"" H1 "\"]},"
	"{\"nsid\":4,\"media\":\"file:/pool/00000000000000000000000000000004.img,size=4M\","
	"  \"nguid\":\"00000000000000000000000000000004\",\"hosts\":[]},"
	"{\"nsid\":5,\"media\":\"mem:1M\",\"write_protect\":\"permanent\"},"
	"{\"nsid\":6,\"media\":\"mem:1M\",\"hosts\":[],\"write_protect\":\"protected\"}]},"
	"{\"nqn\":\"nqn.2026-11.io.weft:n\",\"namespaces\":[{\"media\":\"mem:1M\"}]}]}";

static void begin_with(const char *text)
{
	struct config *config = NULL;

	memset(&errors, 0, sizeof(errors));
	memset(&request, 0, sizeof(request));
	memset(&edit, 0, sizeof(edit));
	CHECK(config_load_text(text, strlen(text), &config, &errors) == 0);
	CHECK(config_identify(config, NULL, &errors) == 0);
	document = config_to_edit_json(config);
	config_free(config);
	snprintf(request.subsystem_nqn, sizeof(request.subsystem_nqn), "%s", NQN);
	snprintf(request.host_nqn, sizeof(request.host_nqn), "%s", H1);
	edit.request = &request;
}

static void begin(void)
{
	begin_with(start);
}

/* The resulting document, if any, must load. */
static void end(void)
{
	struct config *config = NULL;

	memset(&errors, 0, sizeof(errors));
	EXPECT_EQ(0, config_load_json(document, &config, &errors));
	for (unsigned i = 0; i < errors.count; i++)
		printf("# %s\n", errors.texts[i]);
	config_free(config);
	json_decref(document);
	manage_edit_release(&edit);
}

/* Edits a copy, as the engine does: a refusal leaves no trace. */
static int run(edit_fn fn)
{
	json_t *copy = json_deep_copy(document);
	int res;

	edit.status = NVME_SC_SUCCESS;
	memset(&errors, 0, sizeof(errors));
	res = fn(copy, &edit, &errors);
	EXPECT_EQ(res<0, errors.count> 0);
	EXPECT_EQ(res < 0, !nvme_status_is_ok(edit.status));
	if (res == 0) {
		json_decref(document);
		document = copy;
	} else {
		json_decref(copy);
	}
	return res;
}

static void expect_refusal(edit_fn fn, nvme_status status)
{
	EXPECT(run(fn) < 0);
	EXPECT_EQ(status.value | NVME_STATUS_DNR, edit.status.value);
	EXPECT_EQ(edit.status.value, manage_status(&edit, -EPERM).value);
}

static json_t *ns_at(uint32_t nsid)
{
	json_t *ns;
	size_t i;

	json_array_foreach(
		json_object_get(json_array_get(json_object_get(document, "subsystems"), 0),
				"namespaces"),
		i, ns)
	{
		if (json_integer_value(json_object_get(ns, "nsid")) == nsid)
			return ns;
	}
	return NULL;
}

static const char *text_at(uint32_t nsid, const char *key)
{
	const char *text = json_string_value(json_object_get(ns_at(nsid), key));

	return text ? text : "";
}

static void create(uint64_t blocks, uint32_t block_bytes)
{
	request.kind = MANAGE_NS_CREATE;
	request.block_count = blocks;
	request.block_bytes = block_bytes;
}

static void a_namespace_is_made_of_the_pool(void)
{
	begin();
	create(512, 4096);
	EXPECT_EQ(0, run(manage_edit_create));
	EXPECT_EQ(3, request.result_nsid);
	EXPECT(strncmp(text_at(3, "media"), "file:/pool/", 11) == 0);
	EXPECT(strstr(text_at(3, "media"), ".img,size=2097152,block=4096") != NULL);
	EXPECT(strstr(text_at(3, "media"), text_at(3, "nguid")) != NULL);
	EXPECT_EQ(0, json_array_size(json_object_get(ns_at(3), "hosts")));
	EXPECT(!manage_ns_is_visible(ns_at(3), H1));
	request.is_private = true;
	request.ana_group = 7;
	create(1, 512);
	EXPECT_EQ(0, run(manage_edit_create));
	EXPECT_EQ(7, request.result_nsid);
	EXPECT(json_is_true(json_object_get(ns_at(7), "private")));
	EXPECT_EQ(7, json_integer_value(json_object_get(ns_at(7), "ana_group")));
	end();
}

static void a_pool_is_finite(void)
{
	begin();
	/* 10 MiB minus 4 MiB. */
	create((6 << 20) / 4096 + 1, 4096);
	expect_refusal(manage_edit_create, NVME_SC_NS_INSUFFICIENT_CAPACITY);
	create(UINT64_MAX, 4096);
	expect_refusal(manage_edit_create, NVME_SC_NS_INSUFFICIENT_CAPACITY);
	create((6 << 20) / 4096, 4096);
	EXPECT_EQ(0, run(manage_edit_create));
	create(1, 512);
	expect_refusal(manage_edit_create, NVME_SC_NS_INSUFFICIENT_CAPACITY);
	end();
}

static void what_cannot_be_made_is_refused(void)
{
	begin();
	create(0, 4096);
	expect_refusal(manage_edit_create, NVME_SC_INVALID_FIELD);
	create(1, 1024);
	expect_refusal(manage_edit_create, NVME_SC_INVALID_FIELD);
	create(1, 4096);
	request.ana_group = CONFIG_ANA_GROUP_MAX + 1;
	expect_refusal(manage_edit_create, NVME_SC_ANA_GROUP_INVALID);
	request.ana_group = 0;
	snprintf(request.subsystem_nqn, sizeof(request.subsystem_nqn), "nqn.2026-11.io.weft:n");
	expect_refusal(manage_edit_create, NVME_SC_INVALID_OPCODE);
	snprintf(request.subsystem_nqn, sizeof(request.subsystem_nqn), "nqn.2026-11.io.weft:no");
	expect_refusal(manage_edit_create, NVME_SC_INVALID_NS);
	end();
}

static void namespace_ids_can_run_out(void)
{
	json_t *namespaces;

	begin();
	namespaces = json_object_get(json_array_get(json_object_get(document, "subsystems"), 0),
				     "namespaces");
	json_array_clear(namespaces);
	for (int i = 1; i <= CONFIG_NSID_MAX; i++)
		json_array_append_new(namespaces,
				      json_pack("{s:i,s:s}", "nsid", i, "media", "null:1M"));
	create(1, 4096);
	expect_refusal(manage_edit_create, NVME_SC_NS_ID_UNAVAILABLE);
	end();
}

static bool is_busy(void *arg, const struct uuid *uuid)
{
	return true;
}

static struct uuid judged[16];

/* A command for all namespaces that exist now. */
static void judge_all(void)
{
	json_t *ns;
	size_t i;

	request.nsid = NVME_NSID_ALL;
	request.uuids = judged;
	request.uuid_count = 0;
	json_array_foreach(
		json_object_get(json_array_get(json_object_get(document, "subsystems"), 0),
				"namespaces"),
		i, ns)
	{
		CHECK(uuid_parse(json_string_value(json_object_get(ns, "uuid")),
				 &judged[request.uuid_count++]) == 0);
	}
}

static void all_leaves_out_what_came_later(void)
{
	begin();
	judge_all();
	create(1, 4096);
	EXPECT_EQ(0, run(manage_edit_create));
	judged[2] = judged[0]; /* namespace 4 has been replaced since */
	request.nsid = NVME_NSID_ALL;
	EXPECT_EQ(0, run(manage_edit_delete));
	EXPECT_EQ(0, edit.file_count);
	EXPECT(ns_at(3) && ns_at(4));
	end();
}

static void hosts_delete_what_hosts_made(void)
{
	begin();
	request.nsid = 4;
	EXPECT_EQ(0, run(manage_edit_delete));
	EXPECT(!ns_at(4));
	EXPECT_EQ(1, edit.file_count);
	EXPECT_STR("/pool/00000000000000000000000000000004.img", edit.files[0].path);
	EXPECT_STR("/pool", edit.files[0].folder);
	EXPECT_EQ(4, edit.files[0].nguid[15]);
	expect_refusal(manage_edit_delete, NVME_SC_INVALID_NS);
	request.nsid = 1;
	expect_refusal(manage_edit_delete, NVME_STATUS(0, 0x15));
	request.nsid = 5;
	expect_refusal(manage_edit_delete, NVME_SC_NS_WRITE_PROTECTED);
	end();
	begin();
	request.nsid = 4;
	edit.is_formatting = is_busy;
	expect_refusal(manage_edit_delete, NVME_SC_FORMAT_IN_PROGRESS);
	end();
}

static void all_means_all_of_the_pool(void)
{
	begin();
	create(1, 4096);
	EXPECT_EQ(0, run(manage_edit_create));
	judge_all();
	EXPECT_EQ(0, run(manage_edit_delete));
	EXPECT_EQ(2, edit.file_count);
	EXPECT(ns_at(1) && ns_at(2) && !ns_at(3) && !ns_at(4) && ns_at(5));
	end();
	/* The namespace of another host stays. */
	begin();
	json_object_set_new(ns_at(4), "hosts", json_pack("[s]", H2));
	create(1, 4096);
	EXPECT_EQ(0, run(manage_edit_create));
	judge_all();
	EXPECT_EQ(0, run(manage_edit_delete));
	EXPECT_EQ(1, edit.file_count);
	EXPECT(!ns_at(3) && ns_at(4));
	request.nsid = 4;
	expect_refusal(manage_edit_delete, NVME_SC_INVALID_NS);
	end();
}

static void aim(uint32_t nsid, char (*hosts)[NVME_NQN_BYTES], unsigned count)
{
	request.nsid = nsid;
	request.host_nqns = hosts;
	request.host_count = count;
}

static void attachment_follows_the_host(void)
{
	char both[][NVME_NQN_BYTES] = {H1, H2, H1};

	begin();
	/* In the pool the list of hosts starts empty. Two controllers of one host are one entry. */
	aim(4, both, 3);
	expect_refusal(manage_edit_detach, NVME_SC_NS_NOT_ATTACHED);
	EXPECT_EQ(0, run(manage_edit_attach));
	EXPECT(manage_ns_is_visible(ns_at(4), H1) && manage_ns_is_visible(ns_at(4), H2));
	expect_refusal(manage_edit_attach, NVME_SC_NS_ALREADY_ATTACHED);
	aim(4, both, 1);
	EXPECT_EQ(0, run(manage_edit_detach));
	EXPECT(!manage_ns_is_visible(ns_at(4), H1) && manage_ns_is_visible(ns_at(4), H2));
	/* A host that no longer sees the namespace cannot attach itself again. */
	aim(4, both, 1);
	expect_refusal(manage_edit_attach, NVME_SC_INVALID_NS);
	/* All or nothing: the second host is attached already. */
	snprintf(request.host_nqn, sizeof(request.host_nqn), "%s", H2);
	aim(4, both, 2);
	expect_refusal(manage_edit_attach, NVME_SC_NS_ALREADY_ATTACHED);
	EXPECT(!manage_ns_is_visible(ns_at(4), H1));
	aim(4, both, 1);
	EXPECT_EQ(0, run(manage_edit_attach));
	aim(9, both, 1);
	expect_refusal(manage_edit_attach, NVME_SC_INVALID_NS);
	end();
}

static void who_sees_the_administrators_is_not_for_hosts(void)
{
	char one[][NVME_NQN_BYTES] = {H1}, other[][NVME_NQN_BYTES] = {H2};

	begin();
	/* Open to all: a host may change it neither for itself nor for others. */
	aim(1, one, 1);
	expect_refusal(manage_edit_attach, NVME_STATUS(0, 0x15));
	expect_refusal(manage_edit_detach, NVME_STATUS(0, 0x15));
	aim(1, other, 1);
	expect_refusal(manage_edit_detach, NVME_STATUS(0, 0x15));
	EXPECT(manage_ns_is_visible(ns_at(1), H1) && manage_ns_is_visible(ns_at(1), H2));
	/* A list of hosts outside the pool. */
	aim(2, one, 1);
	expect_refusal(manage_edit_detach, NVME_STATUS(0, 0x15));
	aim(2, other, 1);
	expect_refusal(manage_edit_attach, NVME_STATUS(0, 0x15));
	aim(6, one, 1);
	expect_refusal(manage_edit_attach, NVME_STATUS(0, 0x15));
	snprintf(request.subsystem_nqn, sizeof(request.subsystem_nqn), "nqn.2026-11.io.weft:n");
	aim(1, one, 1);
	expect_refusal(manage_edit_detach, NVME_SC_INVALID_OPCODE);
	end();
}

static void hidden_by_the_administrator_stays_hidden(void)
{
	char one[][NVME_NQN_BYTES] = {H1}, both[][NVME_NQN_BYTES] = {H1, H2};

	begin();
	json_object_set_new(ns_at(4), "hidden_from", json_pack("[s]", H2));
	aim(4, both, 2);
	expect_refusal(manage_edit_attach, NVME_STATUS(0, 0x15));
	EXPECT(!manage_ns_is_visible(ns_at(4), H1));
	aim(4, one, 1);
	EXPECT_EQ(0, run(manage_edit_attach));
	snprintf(request.host_nqn, sizeof(request.host_nqn), "%s", H2);
	expect_refusal(manage_edit_detach, NVME_SC_INVALID_NS);
	expect_refusal(manage_edit_delete, NVME_SC_INVALID_NS);
	judge_all();
	EXPECT_EQ(0, run(manage_edit_delete));
	EXPECT(ns_at(4) && edit.file_count == 0);
	end();
}

static void a_private_namespace_has_one_host(void)
{
	char first[][NVME_NQN_BYTES] = {H1}, second[][NVME_NQN_BYTES] = {H2};

	begin();
	create(1, 4096);
	request.is_private = true;
	EXPECT_EQ(0, run(manage_edit_create));
	aim(3, first, 1);
	EXPECT_EQ(0, run(manage_edit_attach));
	aim(3, second, 1);
	expect_refusal(manage_edit_attach, NVME_SC_NS_IS_PRIVATE);
	aim(3, first, 1);
	EXPECT_EQ(0, run(manage_edit_detach));
	aim(3, second, 1);
	EXPECT_EQ(0, run(manage_edit_attach));
	end();
}

static void protection_is_set_until_it_cannot_be(void)
{
	begin();
	request.nsid = 1;
	request.write_protect = NS_WRITE_PROTECT_ON;
	EXPECT_EQ(0, run(manage_edit_protect));
	EXPECT_STR("protected", text_at(1, "write_protect"));
	request.write_protect = NS_WRITE_PROTECT_NONE;
	EXPECT_EQ(0, run(manage_edit_protect));
	request.write_protect = NS_WRITE_PROTECT_UNTIL_POWER_CYCLE;
	EXPECT_EQ(0, run(manage_edit_protect));
	request.write_protect = NS_WRITE_PROTECT_NONE;
	expect_refusal(manage_edit_protect, NVME_SC_FEATURE_NOT_CHANGEABLE);
	request.nsid = 5;
	expect_refusal(manage_edit_protect, NVME_SC_FEATURE_NOT_CHANGEABLE);
	request.nsid = 99;
	expect_refusal(manage_edit_protect, NVME_SC_INVALID_NS);
	end();
}

static void labels_are_text(void)
{
	begin();
	request.nsid = 1;
	memset(request.label, 'x', TARGET_NS_LABEL_BYTES);
	EXPECT_EQ(0, run(manage_edit_label));
	EXPECT_EQ(TARGET_NS_LABEL_BYTES, strlen(text_at(1, "label")));
	memset(request.label, 0, sizeof(request.label));
	memcpy(request.label, "\xff\xfe", 2);
	expect_refusal(manage_edit_label, NVME_SC_INVALID_FIELD);
	request.label[0] = 0;
	EXPECT_EQ(0, run(manage_edit_label));
	EXPECT(!json_object_get(ns_at(1), "label"));
	end();
}

static void a_format_is_checked_before_anything_is_lost(void)
{
	begin();
	request.block_bytes = 512;
	request.nsid = 5;
	expect_refusal(manage_edit_format_check, NVME_SC_NS_WRITE_PROTECTED);
	request.nsid = 99;
	expect_refusal(manage_edit_format_check, NVME_SC_INVALID_NS);
	request.nsid = 1;
	request.block_bytes = 1024;
	expect_refusal(manage_edit_format_check, NVME_SC_INVALID_FORMAT);
	request.block_bytes = 512;
	edit.is_formatting = is_busy;
	expect_refusal(manage_edit_format_check, NVME_SC_FORMAT_IN_PROGRESS);
	edit.is_formatting = NULL;
	EXPECT_EQ(0, run(manage_edit_format_check));
	EXPECT_EQ(1, edit.uuid_count);
	EXPECT_STR("mem:1M", text_at(1, "media"));
	EXPECT_EQ(0, run(manage_edit_format));
	EXPECT_STR("mem:1M,block=512", text_at(1, "media"));
	EXPECT_STR("mem:1M", text_at(2, "media"));
	end();
}

static void a_format_of_all_is_of_what_the_host_sees(void)
{
	begin_with("{\"version\":1,\"subsystems\":[{\"nqn\":\"" NQN "\",\"namespaces\":["
		   "{\"media\":\"mem:1M\"},{\"media\":\"mem:1M\",\"hosts\":[\"" H2 "\"]},"
		   "{\"media\":\"mem:4608,block=512\"}]}]}");
	judge_all();
	request.block_bytes = 4096;
	EXPECT_EQ(0, run(manage_edit_format_check));
	EXPECT_EQ(2, edit.uuid_count);
	/* 4608 bytes are no multiple of 4096. */
	expect_refusal(manage_edit_format, NVME_SC_INVALID_FORMAT);
	request.block_bytes = 512;
	EXPECT_EQ(0, run(manage_edit_format));
	EXPECT_STR("mem:1M,block=512", text_at(1, "media"));
	EXPECT_STR("mem:1M", text_at(2, "media"));
	end();
}

static void specs_take_another_block_size(void)
{
	static const char *const rows[][2] = {
		{"mem:1M", "mem:1M,block=512"},
		{"file:/a,block=4096,size=1M", "file:/a,size=1M,block=512"},
		{"fault:delay:ms=1@file:/a@b,readonly",
		 "fault:delay:ms=1@file:/a@b,readonly,block=512"},
		{"fault:fail:count=1+delay:ms=2@fault:fail:count=2@null:1M,block=4096",
		 "fault:fail:count=1+delay:ms=2@fault:fail:count=2@null:1M,block=512"},
	};

	for (unsigned i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		char *text = config_media_with_block(rows[i][0], 512);

		EXPECT_STR(rows[i][1], text ? text : "");
		free(text);
	}
	EXPECT(config_media_with_block("nothing", 512) == NULL);
}

static void results_become_statuses(void)
{
	memset(&edit, 0, sizeof(edit));
	EXPECT_EQ(0, manage_status(&edit, 0).value);
	EXPECT(nvme_status_same(NVME_SC_NS_INSUFFICIENT_CAPACITY, manage_status(&edit, -ENOSPC)));
	EXPECT(nvme_status_same(NVME_SC_NS_NOT_READY, manage_status(&edit, -ESHUTDOWN)));
	EXPECT(nvme_status_same(NVME_SC_INTERNAL, manage_status(&edit, -EIO)));
}

int main(void)
{
	TAP_RUN(a_namespace_is_made_of_the_pool);
	TAP_RUN(a_pool_is_finite);
	TAP_RUN(what_cannot_be_made_is_refused);
	TAP_RUN(namespace_ids_can_run_out);
	TAP_RUN(hosts_delete_what_hosts_made);
	TAP_RUN(all_means_all_of_the_pool);
	TAP_RUN(all_leaves_out_what_came_later);
	TAP_RUN(attachment_follows_the_host);
	TAP_RUN(who_sees_the_administrators_is_not_for_hosts);
	TAP_RUN(hidden_by_the_administrator_stays_hidden);
	TAP_RUN(a_private_namespace_has_one_host);
	TAP_RUN(protection_is_set_until_it_cannot_be);
	TAP_RUN(labels_are_text);
	TAP_RUN(a_format_is_checked_before_anything_is_lost);
	TAP_RUN(a_format_of_all_is_of_what_the_host_sees);
	TAP_RUN(specs_take_another_block_size);
	TAP_RUN(results_become_statuses);
	return tap_end();
}
