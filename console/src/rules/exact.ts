/** JSON whose numbers stay as they are written. A value that a meter counts has up to 38 digits, and a
 * float has 16: what is read, shown and sent anew by way of floats would be another number.
 *
 * A number that a float does not hold is kept as a text behind a mark. The mark is no character of
 * Unicode, so that no text of others has it.
 */
const MARK = "\uFDD0";
const MARKED = /"\uFDD0(-?\d[\d.eE+-]*)"/g;
const TOKEN = /"(?:[^"\\]|\\.)*"|-?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?/g;

/** What JSON says. Throws where it is none. */
export function parsed(json: string): unknown {
  JSON.parse(json); // what stands in place of a number must not make JSON of what is none
  return JSON.parse(json.replace(TOKEN, held));
}

/** What was parsed so as JSON, with its numbers as they were written. */
export function printed(value: unknown, indent?: number): string {
  const json = JSON.stringify(value, null, indent) as string | undefined; // of nothing, nothing
  return (json ?? "").replace(MARKED, "$1");
}

function held(token: string): string {
  if (token.startsWith('"') || JSON.stringify(Number(token)) === token) return token;
  return `"${MARK}${token}"`;
}
