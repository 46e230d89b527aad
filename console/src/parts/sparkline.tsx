/** A line of a few points without axes. The numbers are in the text beside it. */
export function Sparkline({ values, label }: { values: readonly number[]; label: string }) {
  const [width, height] = [160, 32];
  const low = Math.min(0, ...values);
  const high = Math.max(...values, low + 1e-9);
  const points = values.map((value, index) => {
    const x = (index / Math.max(1, values.length - 1)) * width;
    const y = height - 2 - ((value - low) / (high - low)) * (height - 4);
    return `${x.toFixed(1)},${y.toFixed(1)}`;
  });
  return (
    <svg
      className="sparkline"
      viewBox={`0 0 ${width} ${height}`}
      role="img"
      aria-label={label}
      preserveAspectRatio="none"
    >
      <polyline points={`0,${height} ${points.join(" ")} ${width},${height}`} className="area" />
      <polyline points={points.join(" ")} className="line" />
    </svg>
  );
}
