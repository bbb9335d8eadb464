// Line charts, by hand: a few hundred points, no library.

const SVG = "http://www.w3.org/2000/svg";
const HEIGHT = 190, LEFT = 44, RIGHT = 8, TOP = 8, BOTTOM = 22;

export function svg(name, attributes = {}, ...children) {
  const element = document.createElementNS(SVG, name);
  for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
  element.append(...children);
  return element;
}

export function html(name, attributes = {}, ...children) {
  const element = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
  element.append(...children.filter((child) => child !== null && child !== undefined));
  return element;
}

// A bar of two parts, as wide as its room; shares are between 0 and 1.
export function bar(first, second, classes) {
  const parts = svg("svg", { viewBox: "0 0 100 10", preserveAspectRatio: "none", "aria-hidden": "true" },
    svg("rect", { class: "rest", width: 100, height: 10 }),
    svg("rect", { class: classes[0], width: 100 * first, height: 10 }),
    svg("rect", { class: classes[1], x: 100 * first, width: 100 * second, height: 10 }));
  return parts;
}

function step(most, wanted) {
  const rough = most / wanted;
  const power = 10 ** Math.floor(Math.log10(rough));
  return power * [1, 2, 2.5, 5, 10].find((factor) => factor * power >= rough - 1e-12);
}

function clock(seconds, span) {
  const options = { hour: "2-digit", minute: "2-digit" };
  if (span < 300) options.second = "2-digit";
  return new Date(seconds * 1000).toLocaleTimeString([], options);
}

// series: [{name, points: [[seconds, value or null], …]}]
export function lines(place, series, format, label) {
  const known = series.map(({ name, points }) => ({ name, points: points.filter(([, y]) => y !== null && y !== undefined) }));
  const all = known.flatMap(({ points }) => points);
  if (all.length < 2) {
    if (!place.querySelector(".empty")) place.replaceChildren(html("p", { class: "empty" }, "Nothing yet."));
    return;
  }
  const WIDTH = Math.max(240, place.clientWidth); // a unit is a pixel: text stays as large as it is
  const times = all.map(([x]) => x);
  const first = Math.min(...times), last = Math.max(...times), span = Math.max(last - first, 1);
  const peak = Math.max(...all.map(([, y]) => y)) || 1; // where all is 0, an axis all the same
  const top = peak > 1 ? 1.05 * peak : Math.min(1.05 * peak, 1); // no share is above 1
  const gap = step(top, 4);
  const most = gap * Math.ceil(top / gap - 1e-9);
  const x = (time) => LEFT + ((time - first) / span) * (WIDTH - LEFT - RIGHT);
  const y = (value) => TOP + (1 - value / most) * (HEIGHT - TOP - BOTTOM);

  const picture = svg("svg", { viewBox: `0 0 ${WIDTH} ${HEIGHT}`, role: "img", "aria-label": label });
  for (let value = 0; value <= most + gap / 2; value += gap) {
    picture.append(
      svg("line", { class: "grid", x1: LEFT, x2: WIDTH - RIGHT, y1: y(value), y2: y(value) }),
      svg("text", { x: LEFT - 6, y: y(value) + 4, "text-anchor": "end" }, format(value, gap)));
  }
  for (const [share, anchor] of [[0, "start"], [0.5, "middle"], [1, "end"]]) {
    picture.append(svg("text", { x: LEFT + share * (WIDTH - LEFT - RIGHT), y: HEIGHT - 4, "text-anchor": anchor },
      clock(first + share * span, span)));
  }
  known.forEach(({ points }, number) => {
    const path = points.map(([when, value], place) => `${place ? "L" : "M"}${x(when).toFixed(1)} ${y(value).toFixed(1)}`);
    picture.append(svg("path", { class: `s${number}`, d: path.join("") }));
  });
  const legend = html("div", { class: "legend" });
  const tell = (time) => legend.replaceChildren(...known.map(({ name, points }, number) => {
    const at = points.length && (time === null ? points.at(-1) : nearest(points, time));
    return html("span", {}, svg("svg", { viewBox: "0 0 26 10", "aria-hidden": "true" },
      svg("line", { class: `s${number}`, x1: 0, x2: 26, y1: 5, y2: 5 })), `${name} ${at ? format(at[1], gap / 100) : "–"}`);
  }), ...(time === null ? [] : [html("span", {}, clock(time, 0))]));
  const hair = svg("line", { class: "hair", y1: TOP, y2: HEIGHT - BOTTOM, visibility: "hidden" });
  picture.append(hair);
  picture.addEventListener("pointermove", (event) => {
    const box = picture.getBoundingClientRect();
    const where = ((event.clientX - box.left) / box.width) * WIDTH;
    const time = first + ((Math.min(Math.max(where, LEFT), WIDTH - RIGHT) - LEFT) / (WIDTH - LEFT - RIGHT)) * span;
    for (const end of ["x1", "x2"]) hair.setAttribute(end, x(time));
    hair.setAttribute("visibility", "visible");
    tell(time);
  });
  picture.addEventListener("pointerleave", () => { hair.setAttribute("visibility", "hidden"); tell(null); });
  tell(null);
  if (place.querySelector("svg:hover")) return; // somebody is reading it
  place.replaceChildren(legend, picture);
}

function nearest(points, time) {
  return points.reduce((best, point) => (Math.abs(point[0] - time) < Math.abs(best[0] - time) ? point : best));
}
