import assert from "node:assert/strict";
import { test } from "node:test";

import { Webhook } from "standardwebhooks";

import { DeliveryError, verify } from "../src/index.js";

const SECRET = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";
const BODY = JSON.stringify({ type: "report.meter", usage: [], query: { subject: "é" } });

function signed(body: string, family = "svix", at = new Date()): Record<string, string> {
  const signature = new Webhook(SECRET).sign("dlv_1", at, body);
  return {
    [`${family}-id`]: "dlv_1",
    [`${family}-timestamp`]: String(Math.floor(at.getTime() / 1_000)),
    [`${family}-signature`]: signature,
  };
}

test("the vector that all libraries of the scheme share", () => {
  const signature = new Webhook(SECRET).sign(
    "msg_p5jXN8AQM9LWM0D4loKWxJek",
    new Date(1_614_265_330_000),
    '{"test": 2432232314}',
  );
  assert.equal(signature, "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=");
});

test("either family of headers, bytes or text, any kind of headers", () => {
  for (const family of ["svix", "webhook", "Svix", "Webhook"]) {
    const headers = signed(BODY, family);
    for (const body of [BODY, Buffer.from(BODY), new TextEncoder().encode(BODY)]) {
      for (const kind of [headers, new Headers(headers)]) {
        const delivery = verify(body, kind, SECRET);
        assert.equal(delivery.id, "dlv_1");
        assert.equal(delivery.message.query.subject, "é");
      }
    }
  }
});

test("one of several signatures is enough, as while a secret is rotated", () => {
  const headers = signed(BODY);
  headers["svix-signature"] = `v1,bm9wZQ== v1a,eA== ${headers["svix-signature"]}`;
  assert.equal(verify(BODY, headers, SECRET).id, "dlv_1");
});

test("any changed byte is refused", () => {
  const headers = signed(BODY);
  const bytes = Buffer.from(BODY);
  for (let place = 0; place < bytes.length; place++) {
    for (const mask of [1, 0x80]) {
      const changed = Buffer.from(bytes);
      changed.writeUInt8(bytes.readUInt8(place) ^ mask, place);
      assert.throws(() => verify(changed, headers, SECRET), DeliveryError);
    }
  }
});

test("bytes that are not UTF-8 never pass for their replacement characters", () => {
  const body = JSON.stringify({ type: "report.meter", note: "\uFFFD" });
  const bytes = Buffer.from(body);
  const place = bytes.indexOf("\uFFFD");
  const forged = Buffer.concat([
    bytes.subarray(0, place),
    Buffer.from([0xff]),
    bytes.subarray(place + 3),
  ]);
  assert.equal(forged.toString(), body);
  assert.throws(() => verify(forged, signed(body), SECRET), DeliveryError);
});

test("what is old, unsigned, mixed, misformed or no report is refused", () => {
  const old = new Date(Date.now() - 6 * 60 * 1_000);
  assert.throws(() => verify(BODY, signed(BODY, "svix", old), SECRET), DeliveryError);
  assert.throws(() => verify(BODY, {}, SECRET), DeliveryError);
  const { "svix-id": id, ...rest } = signed(BODY);
  assert.throws(() => verify(BODY, { ...rest, "webhook-id": id }, SECRET), DeliveryError);
  for (const signature of ["v1", "v1,,", "v1,not base64", "v2,eA==", " "]) {
    const headers = { ...signed(BODY), "svix-signature": signature };
    assert.throws(() => verify(BODY, headers, SECRET), DeliveryError, signature);
  }
  for (const body of ['{"type":"report.other"}', "[]", "null", "not JSON", ""]) {
    assert.throws(() => verify(body, signed(body), SECRET), DeliveryError, body);
  }
});

test("a secret that is none is a mistake of the program, not of the sender", () => {
  assert.throws(
    () => verify(BODY, signed(BODY), ""),
    (error) => !(error instanceof DeliveryError),
  );
});
