declare module "virtual:coast" {
  /** The coast lines as an SVG path; the unit is a tenth of a degree, from the date line and the north pole. */
  const path: string;
  export default path;
}
