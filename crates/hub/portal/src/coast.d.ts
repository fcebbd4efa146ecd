declare module "virtual:coast" {
  /** Coast lines as an SVG path, tenths of a degree from the date line and the north pole. */
  const path: string;
  export default path;
}
