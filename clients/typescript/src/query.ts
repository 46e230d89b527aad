/**
 * A query string in the styles that the API uses: `page: {size: 5}` becomes `page[size]=5` to any
 * depth (deepObject), a list is repeated, what is `undefined` is left out.
 */
export function queryString(query: object): string {
  return pairs(query, (name) => name).join("&");
}

function pairs(value: object, named: (name: string) => string): string[] {
  return Object.entries(value).flatMap(([name, inner]: [string, unknown]) =>
    parts(named(encodeURIComponent(name)), inner),
  );
}

function parts(name: string, value: unknown): string[] {
  if (value === undefined || value === null) return [];
  if (Array.isArray(value)) return value.flatMap((one: unknown) => parts(name, one));
  if (value instanceof Date) return [`${name}=${encodeURIComponent(value.toISOString())}`];
  if (typeof value === "object") return pairs(value, (inner) => `${name}[${inner}]`);
  return [`${name}=${encodeURIComponent(String(value))}`];
}
